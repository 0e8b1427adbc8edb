"""MPIJobs: their objects, their rules, and the webhooks that apply these.

`objects` makes everything that belongs to a job (`launcher`, `workers`, `hostfile`, `ssh`,
`podgroup` and `networkpolicy` have the parts), of a job seen through `view` and the cluster's
`settings`. `validation` judges jobs, ten areas one by one, and `webhooks` asks it. All of this is
pure; names and labels are in `names`.
"""
