"""Programs of users: functions, scripts and folders, packed and shipped to pods."""
