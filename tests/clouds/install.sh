#!/bin/sh
# Makes what the tests of clouds need and the extra `test` cannot give: a venv below
# ${CORRAL_CACHE:-~/.cache/corral}/clouds with boto3 (whose dateutil other clients do not bear), moto
# and the clouds' own libraries to compare with. What is there is left alone.
set -eu

cache="${CORRAL_CACHE:-$HOME/.cache/corral}/clouds"
python="${PYTHON:-python3}"
sdks="boto3>=1.34 moto[ec2,server]>=5 google-cloud-compute>=1.30 azure-mgmt-compute>=39"
wanted="$sdks aiohttp>=3.14 cryptography>=42 pytest>=8.2 pytest-asyncio>=0.24 pytest-timeout>=2.3"

mkdir -p "$cache"
exec 9> "$cache/.lock"
flock 9

if [ "$(cat "$cache/aws/.complete" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$cache/aws"
    "$python" -m venv "$cache/aws"
    # shellcheck disable=SC2086  # each word is a requirement
    "$cache/aws/bin/python" -m pip install --quiet --disable-pip-version-check \
        --only-binary :all: $wanted
    printf '%s\n' "$wanted" > "$cache/aws/.complete"
fi
echo "$cache"
