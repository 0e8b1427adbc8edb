"""REST: thin views on `corral.gateway.service`, one route table that is also the OpenAPI document.

`app.RestApp` is the ASGI application. `routes` says which operations there are and what each of
them may answer; nothing is answered that is not said there.
"""
