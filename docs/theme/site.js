// Theme toggle, menu on narrow screens, copy buttons, and the plot of the front page.
"use strict";

document.querySelector(".theme").addEventListener("click", () => {
  const style = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const next = (style.dataset.theme || system) === "dark" ? "light" : "dark";
  style.dataset.theme = next;
  try { localStorage.setItem("theme", next); } catch (e) { /* no storage: this page only */ }
});

// The same page of another version; its front page where it has no such page.
document.querySelector(".versions")?.addEventListener("change", async (event) => {
  const base = new URL(event.target.value.replace(/\/?$/, "/"), location.href);
  const page = location.href.slice(new URL(root || ".", location.href).href.length);
  const there = new URL(page, base);
  const found = await fetch(there, { method: "HEAD" }).catch(() => null);
  location.href = found?.ok ? there : base;
});

const menu = document.querySelector(".menu");
menu.addEventListener("click", () => {
  const open = document.body.classList.toggle("open");
  menu.setAttribute("aria-expanded", open);
});

// Statements without prompts and outputs; those that raise on purpose are comments.
function runnable(text) {
  const lines = text.split("\n");
  if (!lines.some((line) => line.startsWith(">>>"))) return text.trimEnd() + "\n";
  const kept = [];
  let first = 0;  // the line of the statement that an output belongs to
  for (const line of lines) {
    if (/^(>>>|\.\.\.)( |$)/.test(line)) {
      if (line.startsWith(">>>")) first = kept.length;
      kept.push(line.slice(4));
    } else if (line.startsWith("Traceback (most recent call last)")) {
      for (let i = first; i < kept.length; i++) kept[i] = `# ${kept[i]}`;
    } else if (!line.trim() && kept.length && kept[kept.length - 1]) kept.push("");
  }
  return kept.join("\n").trimEnd() + "\n";
}

for (const block of document.querySelectorAll(".highlight")) {
  if (block.closest(".signature") || !block.querySelector("pre")) continue;
  const button = document.createElement("button");
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(runnable(block.querySelector("pre").textContent));
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  block.append(button);
}

const live = document.getElementById("live");
if (live && window.liveData) drawLive(live, window.liveData);

function drawLive(place, data) {
  const W = 460, H = 250, L = 34, B = 26;
  const x = (t) => L + (t / data.times[data.times.length - 1]) * (W - L - 8);
  const y = (v) => 10 + ((14 - v) / 32) * (H - B - 10);
  const line = (values) => values.map((v, i) => `${i ? "L" : "M"}${x(data.times[i]).toFixed(1)} ${y(Math.max(v, -18)).toFixed(1)}`).join("");
  const ticks = [-15, -10, -5, 0, 5, 10].map((v) => `<line x1="${L}" x2="${W - 8}" y1="${y(v)}" y2="${y(v)}" stroke="var(--line)"/><text x="${L - 6}" y="${y(v) + 4}" text-anchor="end" fill="var(--quiet)">${v}</text>`).join("");
  const times = [0, 0.5, 1, 1.5, 2, 2.5].map((t) => `<text x="${x(t)}" y="${H - 8}" text-anchor="middle" fill="var(--quiet)">${t}</text>`).join("");
  place.innerHTML = `<svg viewBox="0 0 ${W} ${H}" role="img" aria-label="Height and velocity of a ball over time">${ticks}${times}
    <path class="v" fill="none" stroke="var(--warm)" stroke-width="2.500"/><path class="h" fill="none" stroke="var(--accent)" stroke-width="3"/>
    <text x="${L + 12}" y="24" fill="var(--accent)" font-weight="600">height, m</text><text x="${L + 90}" y="24" fill="var(--warm)" font-weight="600">its derivative, m/s</text></svg>
    <label>speed <input type="range" min="0" max="${data.speeds.length - 1}" value="20" aria-label="Initial speed"><output></output></label>
    <p>All ${data.speeds.length} curves and their derivatives: one call of <code>jit(vmap(vmap(value_and_grad(height))))</code></p>`;
  const slider = place.querySelector("input");
  const show = () => {
    const row = +slider.value;
    place.querySelector(".h").setAttribute("d", line(data.heights[row]));
    place.querySelector(".v").setAttribute("d", line(data.velocities[row]));
    place.querySelector("output").textContent = `${data.speeds[row].toFixed(2)} m/s`;
  };
  slider.addEventListener("input", show);
  show();
}
