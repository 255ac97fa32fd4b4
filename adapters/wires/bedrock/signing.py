"""What comes from botocore: credentials, signatures and the parser of event streams.

It is loaded on first use.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from attrs import frozen

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.secret import Secret

_SERVICE: Final = "bedrock"


def botocore(module: str) -> Any:
    """Return a module of botocore, or raise ConfigurationError if it is not installed."""
    try:
        return import_module(f"botocore.{module}")
    except ImportError:
        raise ConfigurationError(
            "Bedrock needs botocore: pip install 'rungwise[bedrock]'"
        ) from None


@frozen(eq=False)
class Account:
    """Hold the region and credentials that AWS's own tools would find here, and sign with them."""

    region: str | None
    credentials: Any  # botocore's; None signs nothing

    @classmethod
    def from_environment(
        cls,
        region: str | None,
        profile: str | None,
        *,
        signs: bool,
    ) -> Account:
        """Look for a region and credentials in the environment and in the files of AWS's tools.

        Arguments:
            region: the region, if it is known.
            profile: the profile in those files; None is the default one.
            signs: whether to look for credentials.

        Raises:
            ConfigurationError: the files cannot be read.
        """
        sessions = botocore("session")
        credentials = None
        # botocore reads only the older of the two variables
        region_here = region or os.environ.get("AWS_REGION")
        try:
            # a session is some hundred objects that only the collector frees
            if signs or not region_here:
                session = sessions.Session(profile=profile)
                region_here = region_here or session.get_config_variable("region")
                if signs:
                    credentials = session.get_credentials()
        except botocore("exceptions").BotoCoreError as error:
            # whose texts hold names, and no secrets
            raise ConfigurationError(
                f"AWS's configuration cannot be read: {type(error).__name__}"
            ) from None
        return cls(str(region_here) if region_here else None, credentials)

    @classmethod
    def from_keys(
        cls,
        region: str | None,
        key: Secret,
        secret: Secret,
        token: Secret | None,
    ) -> Account:
        """Return an account with the caller's credentials.

        Arguments:
            region: the region to sign for.
            key: the id of the access key.
            secret: the secret of it.
            token: the token of a session; None if the key is a lasting one.
        """
        kind = botocore("credentials").Credentials
        session = token.reveal() if token else None
        return cls(region, kind(key.reveal(), secret.reveal(), session))

    def needs_region(self) -> None:
        """Refuse a missing region."""
        if self.region is None:
            raise ConfigurationError("region is missing: set AWS_REGION, or give region=")

    @property
    def host(self) -> str:
        """Return the host of the service in this region."""
        endpoints = botocore("session").Session().get_data("endpoints")
        resolver = botocore("regions").EndpointResolver(endpoints)
        endpoint = resolver.construct_endpoint("bedrock-runtime", self.region) or {}
        return str(endpoint.get("hostname") or f"bedrock-runtime.{self.region}.amazonaws.com")

    def signed(
        self,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
    ) -> dict[str, str]:
        """Return the headers that sign a request's host, type and body at this time.

        Arguments:
            url: the URL.
            headers: those that are signed besides the host.
            body: the body.
        """
        kind = botocore("awsrequest").AWSRequest
        request = kind(
            method="POST",
            url=url,
            data=body,
            headers=dict(headers),
        )
        try:
            credentials = self.credentials.get_frozen_credentials()
            signer = botocore("auth").SigV4Auth(credentials, _SERVICE, self.region)
            signer.add_auth(request)
        except botocore("exceptions").BotoCoreError as error:
            raise ConfigurationError(
                f"the credentials of AWS cannot be had: {type(error).__name__}"
            ) from None
        present = {name.lower() for name in headers}
        added: dict[str, str] = {}
        for name, value in request.headers.items():
            if name.lower() not in present:
                added[name.lower()] = value
        return added
