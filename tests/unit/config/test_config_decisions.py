"""Settings of decisions that are refused: their readers, and the page that shows decisions."""

from pathlib import Path

from config_world import Parse, Refusal, document

from kubextend.errors import Issue


def test_the_page_is_off_unless_the_file_asks_for_it(parse: Parse) -> None:
    assert parse(document()).server.decisions.page is False


def test_the_page_is_for_readers(parse: Parse, refusal: Refusal, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret-and-long-enough\n")
    shown = {"decisions": {"page": True, "tokenFile": str(token)}}
    assert parse(document(server=shown)).server.decisions.page is True
    assert refusal(document(server={"decisions": {"page": True}})) == (
        Issue(
            "server.decisions.page",
            "shows nothing, as nobody may read decisions",
            True,
            "set allowedNames to names of client certificates, or tokenFile, or both",
        ),
    )
