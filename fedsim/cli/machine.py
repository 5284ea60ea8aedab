"""`fedsim doctor`."""

import json

import click

from fedsim.cli import options


@click.command("doctor")
@click.option(
    "--clear-cache",
    is_flag=True,
    help="Only remove the data that earlier runs have read and cached.",
)
@options.as_json("what was found")
@options.debug
def doctor_command(clear_cache: bool, as_json: bool) -> None:
    """Show what a run would use here: versions, devices, threads, memory, and what is missing.

    \b
    Examples:
      fedsim doctor
      fedsim doctor --json
      fedsim doctor --clear-cache
    """
    if clear_cache:
        _clear_cache(as_json)
        return
    from fedsim.cli.doctor import examine, print_findings

    findings = examine()
    if as_json:
        click.echo(json.dumps(findings))
    else:
        print_findings(findings)


def _clear_cache(as_json: bool) -> None:
    """Empty the cache of read data, and print what was in it."""
    from fedsim.sources import cache_folder

    removed = cache_folder.cached_sets()
    size = cache_folder.bytes_of(removed)
    for path in removed:
        cache_folder.remove_set(path)
    folder = cache_folder.cache_path()
    if as_json:
        click.echo(json.dumps({"place": str(folder), "sets": len(removed), "bytes": size}))
    else:
        click.echo(f"{folder}: {cache_folder.counted(removed)} removed, {size / 1e6:.1f} MB")
