"""`secret`: store secrets for jobs on this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from ..model.errors import InputError
from ..report.documents import mirror
from ..report.documents.changes import SecretChange
from ..report.documents.machine import SecretItem, SecretsDocument
from ..settings.secret_store import MAX_LENGTH, SecretStore, check_name
from ..system.redact import Redactor
from ._output import confirm, emit, output_option, yes_option


@click.group(no_args_is_help=False)
def secret() -> None:
    """Keep secrets for jobs on this machine: in its keyring, else in a file that only you can read.

    A job reads secrets (`--bench-secret VARIABLE=NAME`) and keys of models from here where its environment lacks
    them.
    """


@secret.command("set")
@click.argument("name")
@click.argument("value", nargs=-1, metavar="")
@output_option("secret-change")
def set_(name: str, value: tuple[str, ...], output: str) -> None:
    """Store the secret NAME. Its value is prompted for, or read from standard input; it is never an argument.

    A line break at the end is not part of the value.
    """
    if value or "=" in name:
        raise click.UsageError(
            "do not give the value as an argument, which everyone on this machine can see; leave it out to be asked "
            "for it, or give it on standard input"
        )
    if Redactor({}).redact_text(name) != name:
        raise click.UsageError("that looks like a key itself; give a NAME; you are then asked for the value")
    check_name(name)
    is_prompted = sys.stdin.isatty()
    text = click.prompt(f"Value of {name}", hide_input=True, err=True) if is_prompted else _read()
    kept = SecretStore().set(name, text)
    place = SecretStore().place(in_keyring=kept.in_keyring)
    document = mirror(SecretChange, kept, action="set", kept=place)
    emit(document, lambda: [f"{kept.name} is kept in {place} ({kept.fingerprint})"], output)


@secret.command("list")
@output_option("secret")
def list_(output: str) -> None:
    """List the stored secrets, without their values.

    The same value has the same fingerprint, on this machine only; a fingerprint tells nothing else.
    """
    store = SecretStore()
    items = tuple(
        mirror(SecretItem, secret, kept="keyring" if secret.in_keyring else "file") for secret in store.kept()
    )

    def lines() -> Iterator[str]:
        width = max((len(item.name) for item in items), default=0)
        for item in items:
            fingerprint = item.fingerprint or "is gone"
            yield f"{item.name:{width}}  {item.kept:7}  {fingerprint:8}  {item.set_at.astimezone():%Y-%m-%d %H:%M}"

    emit(SecretsDocument(file=str(store.path), secrets=items), lines, output)
    if not items and output == "text":
        click.echo("no secrets are kept", err=True)


@secret.command("delete")
@click.argument("name")
@yes_option
@output_option("secret-change")
def delete(name: str, yes: bool, output: str) -> None:
    """Delete the secret NAME. On a terminal it asks first."""
    store = SecretStore()
    if all(kept.name != name for kept in store.kept()):
        raise InputError(f"no secret {name!r} is kept; `benchjobs secret list` shows those that are")
    confirm(f"Delete the secret {name}?", yes=yes)
    store.delete(name)
    emit(SecretChange(name=name, action="deleted"), lambda: [f"deleted secret {name}"], output)


def _read() -> str:
    raw = sys.stdin.buffer.read(4 * MAX_LENGTH + 1)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError("what is on standard input is not UTF-8 text") from None
    return text.removesuffix("\n").removesuffix("\r")
