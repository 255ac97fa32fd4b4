"""Write the chains with which `rungwise proxy` stands in Failover Bench, and show the row for its
`systems/`.

    python tests/failover/endpoint.py scenarios/catalogue.yaml http://127.0.0.1:8401/v1 >chains.toml
    rungwise proxy chains.toml

The benchmark calls a gateway through its `endpoint` adapter, once for each call, and names the
scenario as the model. Each scenario's model is a chain here: that model, and the fallback that the
catalogue names for it. Retries, fallbacks and clocks are those of `Policy.interactive()`. It needs
PyYAML.
"""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

POLICY = 'preset = "interactive"\n'
SYSTEM = """
name: rungwise-proxy
label: "rungwise proxy"
adapter: endpoint
notes: "Serves chains.toml, which tests/failover/endpoint.py of Rungwise writes. The proxy owns retries and fallbacks."
params:
  base_url: http://127.0.0.1:8000/v1
"""  # noqa: E501
BACKEND = (
    '[[chain."{chain}"]]\napi = "openai"\nmodel = "{model}"\nbase_url = '
    '"{base_url}"\nkey_env = ""\n'
)


def chains(models: Mapping[str, Iterable[str]], base_url: str, policy: str = POLICY) -> str:
    """Return the file for the proxy.

    Arguments:
        models: those of each chain, in order, by its name.
        base_url: where all of them are served.
        policy: the policy, as TOML.
    """
    backends = [
        BACKEND.format(chain=name, model=model, base_url=base_url)
        for name, chain in models.items()
        for model in chain
    ]
    return "\n".join([policy, *backends])


def models_of(catalogue: Mapping[str, object]) -> dict[str, list[str]]:
    """Return the chains that a catalogue of scenarios needs; a fallback is one as well, to ask
    whether all is well.
    """
    usual = str(catalogue.get("default_fallback", "fb-ok"))
    found = {}
    scenarios = catalogue["scenarios"]
    assert isinstance(scenarios, list)
    for scenario in scenarios:
        fallback = scenario.get("fallback_model", usual)
        found[scenario["model"]] = [scenario["model"], fallback]
        found[fallback] = [fallback]
    return found


def main() -> None:
    """Read a catalogue; write the chains to stdout, and the row to stderr."""
    import yaml

    catalogue = yaml.safe_load(Path(sys.argv[1]).read_text(encoding="utf-8"))
    print(chains(models_of(catalogue), sys.argv[2]))
    print(SYSTEM, file=sys.stderr)


if __name__ == "__main__":
    main()
