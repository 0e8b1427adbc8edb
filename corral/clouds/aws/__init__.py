"""EC2: `provider` talks through boto3, `bodies` has the shapes."""

from corral.clouds.aws.bodies import Place
from corral.clouds.aws.provider import AwsCredentials, AwsProvider, AwsSettings

__all__ = ["AwsCredentials", "AwsProvider", "AwsSettings", "Place"]
