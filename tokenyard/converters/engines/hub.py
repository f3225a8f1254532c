"""Whether the Hugging Face hub can be reached, found out by one request."""

from __future__ import annotations

#: Seconds to wait for an answer. Its own library tries each of several requests six times.
_PATIENCE_S = 10.0


def why_unreachable() -> str | None:
    """Return why the hub doesn't answer; None where it does, or isn't to be asked (HF_HUB_OFFLINE).

    It is asked the way its own library does, by the proxies, certificates and mirror (HF_ENDPOINT) that are set for it.
    """
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session  # type: ignore[attr-defined]  # from where all releases give it

    if constants.HF_HUB_OFFLINE:
        return None
    try:
        get_session().head(constants.ENDPOINT, timeout=_PATIENCE_S)
    except Exception as error:  # noqa: BLE001  # whatever client the library has; its cache is what is left then
        return str(error) or type(error).__name__
    return None


def not_found(name: str, looked_for_at: str, unreachable: str | None, error: Exception) -> str:
    """Return the message for a name that is neither a file nor a folder and that the hub and its cache don't give."""
    from huggingface_hub import constants

    way_out = "give the path of a tokenizer.json, or of a folder that a tokenizer was saved in"
    elsewhere = (
        "or load the name once where there is a network, bring that cache here (HF_HOME says where it lies), and set "
        "HF_HUB_OFFLINE=1"
    )
    looked = f"no tokenizer {name!r}: looked for a file or a folder at {looked_for_at}, and for that name"
    cache = f"its cache {constants.HF_HUB_CACHE}"
    if constants.HF_HUB_OFFLINE:
        return (
            f"{looked} on the Hugging Face hub and in {cache}, offline (HF_HUB_OFFLINE is set); {way_out}, {elsewhere}"
        )
    if unreachable is not None:
        return (
            f"{looked} in {cache} alone, as the Hugging Face hub at {constants.ENDPOINT} can't be reached "
            f"({unreachable}); {way_out}, {elsewhere}"
        )
    return f"{looked} on the Hugging Face hub and in {cache}: {error}; correct the name, or {way_out}"
