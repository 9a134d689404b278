"""The example that reads a digit drawn on a page, built and opened in Chromium."""

import functools
import http.server
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "ship"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    command = [sys.executable, str(EXAMPLE / "digits.py"), "--target", "wasm32"]
    subprocess.run([*command, "--out", str(folder)], check=True, capture_output=True)
    assert (folder / "digits.wasm").stat().st_size < 60 * 1024
    shutil.copy(EXAMPLE / "digits.html", folder / "index.html")
    (folder / "icon").write_bytes(b"")
    handler = functools.partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/index.html"
    server.shutdown()
    thread.join()
    server.server_close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        pass

    def do_GET(self):
        if self.path == "/favicon.ico":  # which browsers ask for
            self.send_response(204)
            self.end_headers()
        else:
            super().do_GET()


STROKES = {
    "0": [(128, 40), (80, 70), (70, 128), (80, 190), (128, 216), (176, 190),
          (186, 128), (176, 70), (128, 40)],
    "7": [(70, 45), (190, 45), (150, 130), (115, 220)],
}  # fmt: skip


@pytest.mark.parametrize("digit", STROKES)
def test_a_drawn_digit_is_read(open_page, address, digit):
    page = open_page(address)
    box = page.locator("canvas").bounding_box()
    (first, *others) = [(box["x"] + x, box["y"] + y) for x, y in STROKES[digit]]
    page.wait_for_function("document.querySelectorAll('li').length === 10")
    page.wait_for_load_state("networkidle")
    page.mouse.move(*first)
    page.mouse.down()
    for place in others:
        page.mouse.move(*place, steps=8)
    page.mouse.up()
    assert page.locator("output").text_content().startswith(f"{digit}, in ")
    page.get_by_role("button", name="Clear").click()
    assert page.locator("output").text_content() == "Draw a digit."
