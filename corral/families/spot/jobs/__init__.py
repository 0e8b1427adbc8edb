"""SpotInstanceJob: replicas of a job on machines of the least expected cost."""
