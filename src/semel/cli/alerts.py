"""`semel alerts`: Prometheus rules for a broker's metrics.

Role.   Prints the file that comes with the package, to be put where Prometheus looks for its rules.
"""

import click


@click.command(name="alerts", epilog="Example: semel alerts > semel-alerts.yml")
def command() -> None:
    """Print alerting rules for Prometheus, for brokers started with --metrics.

    Add the file to rule_files of prometheus.yml, and name the scrape job 'semel'.
    """
    click.echo(alert_rules(), nl=False)


def alert_rules() -> str:
    """The rules that are shipped, as YAML."""
    from importlib.resources import files

    return files("semel.broker.metrics").joinpath("alerts.yml").read_text(encoding="utf-8")
