"""What an editor shows while a scenario is typed, by a real yaml-language-server."""

import json
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

import fedsim.clients
import fedsim.models  # noqa: F401 (importing them registers the kinds)
from fedsim.compose import FAMILIES

pytestmark = pytest.mark.long

SERVER = "yaml-language-server@1.25.0"
MODELINE = "# yaml-language-server: $schema=schema.json\n"
SETTINGS = {
    "yaml": {"validate": True, "hover": True, "completion": True, "schemaStore": {"enable": False}}
}
START = "name: a\ndata: {kind: digits}\n"
SECONDS = 30


class Editor:
    """A language server and the documents that are open in it.

    Attributes:
      folder: where the documents would be, beside `schema.json`.
      process: the server.
    """

    def __init__(self, folder: Path, program: Path):
        self.folder, self.opened = folder, 0
        self.process = subprocess.Popen(
            ["node", str(program), "--stdio"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
        )
        self.answers: dict[int, dict] = {}
        self.found: dict[str, list[dict]] = {}
        self.news = threading.Condition()
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()
        completion = {
            "completionItem": {"snippetSupport": True, "documentationFormat": ["markdown"]}
        }
        able = {"textDocument": {"completion": completion}, "workspace": {"configuration": True}}
        self.ask(
            "initialize", {"processId": None, "rootUri": folder.as_uri(), "capabilities": able}
        )
        self._send(method="initialized", params={})

    def diagnose(self, text: str) -> list[str]:
        """`LINE:COLUMN message` of everything that is wrong with a document."""
        uri = self._open(text)
        with self.news:
            assert self.news.wait_for(lambda: uri in self.found, SECONDS), "no diagnostics came"
        starts = [(one["range"]["start"], one["message"]) for one in self.found[uri]]
        return [f"{start['line']}:{start['character'] + 1} {message}" for start, message in starts]

    def complete(self, text: str) -> dict[str, dict]:
        """What is offered at `|`, by label."""
        answer = self._at("textDocument/completion", text)
        return {
            item["label"]: item
            for item in (answer["items"] if isinstance(answer, dict) else answer)
        }

    def hover(self, text: str) -> str:
        """The text that is shown at `|`, without the backslashes of Markdown."""
        return self._at("textDocument/hover", text)["contents"]["value"].replace("\\", "")

    def ask(self, method: str, params: dict):
        """A request, and its answer."""
        number = len(self.answers) + 1
        self._send(id=number, method=method, params=params)
        with self.news:
            assert self.news.wait_for(lambda: number in self.answers, SECONDS), (
                f"{method} was not answered"
            )
        return self.answers[number]["result"]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.listener.join()
        self.process.stdin.close()
        self.process.stdout.close()

    def _at(self, method: str, text: str):
        before, after = text.split("|")
        line, start = (MODELINE + before).count("\n"), before.rfind("\n") + 1
        place = {"line": line, "character": len(before) - start}
        return self.ask(
            method, {"textDocument": {"uri": self._open(before + after)}, "position": place}
        )

    def _open(self, text: str) -> str:
        self.opened += 1
        uri = (self.folder / f"{self.opened}.yaml").as_uri()
        document = {"uri": uri, "languageId": "yaml", "version": 1, "text": MODELINE + text}
        self._send(method="textDocument/didOpen", params={"textDocument": document})
        return uri

    def _send(self, **message) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.process.stdin.flush()

    def _listen(self) -> None:
        while line := self.process.stdout.readline():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
            elif line == b"\r\n":
                self._hear(json.loads(self.process.stdout.read(length)))

    def _hear(self, message: dict) -> None:
        method, params = message.get("method"), message.get("params")
        if method == "workspace/configuration":
            self._send(
                id=message["id"],
                result=[SETTINGS.get(item["section"], {}) for item in params["items"]],
            )
        elif method and "id" in message:
            self._send(id=message["id"], result=None)
        with self.news:
            if method == "textDocument/publishDiagnostics":
                self.found[params["uri"]] = params["diagnostics"]
            elif not method:
                self.answers[message["id"]] = message
            self.news.notify_all()


@pytest.fixture(scope="module")
def editor(tmp_path_factory, root):
    folder = tmp_path_factory.mktemp("editor")
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("needs node and npm")
    quick = ["--silent", "--no-audit", "--no-fund", "--fetch-retries=1", "--fetch-timeout=20000"]
    command = ["npm", "install", *quick, "--prefix", str(folder), SERVER]
    try:
        installed = subprocess.run(command, cwd=folder, capture_output=True, timeout=120)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{SERVER} could not be installed in two minutes")
    program = folder / "node_modules/yaml-language-server/bin/yaml-language-server"
    if installed.returncode or not program.exists():
        pytest.skip(f"{SERVER} could not be installed; is there a network?")
    shutil.copy(root / "scenarios/schema.json", folder)
    made = Editor(folder, program)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rounds: -1", "3:9 Value is below the minimum of 0."),
        ("model: {kind: mlp, hiden: [3]}", "3:20 Property hiden is not allowed."),
        (
            "client: {kind: fedpox}",
            "3:16 Value is not accepted. Valid values: "
            + ", ".join(f'"{name}"' for name in FAMILIES["client"])
            + ".",
        ),
        ("client: {lr: x}", "3:14 this is not a kind: write {kind: NAME, ...} or NAME(a=1)"),
        ("client: {steps: 1, epochs: 1}", "3:28 steps is given as well: remove one of them"),
        ("server: [{kind: krum}]", '3:10 Missing property "f".'),
        (
            "server: [krum]",
            "3:10 this kind has parameters that must be given: write {kind: NAME, ...}",
        ),
        ("fleet: {malicious: 2}", "3:20 Value is above the maximum of 1."),
    ],
)
def test_every_mistake_is_one_message_at_its_place(editor, text, message):
    assert editor.diagnose(START + text + "\n") == [message]


def test_an_unknown_kind_is_answered_with_all_kinds(editor):
    for text in ("server: [{kind: kurm}]", "server: [{kind: kurm, f: 1}]"):
        (message,) = editor.diagnose(START + text)
        assert (
            message.startswith("3:17 Value is not accepted.")
            and '"krum"' in message
            and '"adam"' in message
        )


@pytest.mark.parametrize(
    ("text", "offered", "not_offered"),
    [
        ("|", ["name", "data", "server", "numerics"], ["kind", "lr"]),
        ("data:\n  kind: |", ["digits", "gaussian_blobs", "csv"], ["sgd", "iid"]),
        ("data:\n  kind: digits\n  |", ["clients", "partition", "test"], ["kind", "shape", "path"]),
        ("data:\n  kind: digits\n  partition: |", ["iid", "dirichlet"], ["digits"]),
        (
            "data: {kind: digits, partition: {kind: dirichlet, m|}}",
            ["alpha", "min_samples", "bins"],
            ["clients", "sigma"],
        ),
        (START + "server: [{kind: |}]", ["krum", "clip", "adam", "nnm"], ["sign_flip", "fedprox"]),
        (START + "server: [{kind: krum, n|}]", ["f", "neighbours"], ["trim", "select"]),
        (
            START + "server:\n  - |",
            ["median", "trimmed_mean"],
            ["krum", "clip"],
        ),  # those need {kind: krum, f: ...}
        (START + "client:\n  |", ["kind", "lr", "epochs", "optimizer"], ["mu", "option"]),
        (START + "client: {kind: fedprox, m|}", ["mu", "lr", "batch"], ["kind", "option"]),
        (START + "client: {lr: {kind: |}}", ["linear_schedule"], ["adam"]),
        (START + "method: |", ["fedavg", "scaffold", "median", "fedprox(mu=0.1)"], ["adam"]),
        (START + "evaluate: {metric: |}", ["test_accuracy", "test_loss"], ["auto"]),
    ],
)
def test_allowed_keys_and_values_are_offered(editor, text, offered, not_offered):
    labels = editor.complete(text)
    assert set(offered) <= set(labels) and not set(not_offered) & set(labels), sorted(labels)


def test_completions_have_documentation_and_placeholders(editor):
    keys = editor.complete(START + "client:\n  |")
    assert (
        keys["lr"]["insertText"] == "lr: ${1:0.1}"
        and "learning rate" in keys["lr"]["documentation"]
    )
    assert keys["optimizer"]["insertText"] == "optimizer: ${1:sgd}"
    kinds = editor.complete(START + "server: [{kind: |}]")
    assert kinds["nnm"]["documentation"] == kinds["mix_neighbours"]["documentation"]
    assert "mix_neighbours(f)" in kinds["nnm"]["documentation"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("name: a\nda|ta: {kind: digits}", "Where samples come from"),
        (
            "data: {kind: digits, partition: {kind: dirichlet, al|pha: 1}}",
            "#### partition dirichlet\n\nconcentration",
        ),
        (
            "data: {kind: digits, partition: {kind: dirichlet, alpha: |1}}",
            "#### partition dirichlet\n\nconcentration",
        ),
        (
            START + "server: [{kind: kr|um, f: 1}]",
            "#### rule krum\n\nThe update with the closest neighbours.",
        ),
        (START + "server: [{kind: kr|um, f: 1}]", "krum(f, neighbours=null)"),
        (START + "server: [{kind: krum, |f: 1}]", "#### rule krum\n\nmalicious clients to expect."),
        (START + "server: [fedmed|ian]", "Coordinate-wise median"),
        (START + "client: {l|r: 0.1}", "#### client sgd\n\nClient learning rate"),
        (START + "model: ml|p", "Multilayer perceptron"),
    ],
)
def test_hovering_explains_keys_and_values(editor, text, shown):
    assert shown in editor.hover(text)
