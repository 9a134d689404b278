// Search: pages are ranked by where words occur: in names, titles, headings, text.
"use strict";

(() => {
  const box = document.querySelector(".search"), input = box.querySelector("input");
  const list = box.querySelector(".results");
  let loading = null, chosen = -1;

  function load() {
    loading ??= new Promise((done) => {
      const script = document.createElement("script");
      script.src = root + (root.endsWith("/") ? "" : "/") + "assets/search-index.js";
      script.onload = () => done(window.searchIndex.map(prepared));
      document.head.append(script);
    });
    return loading;
  }

  function prepared(page) {
    const title = page.t.toLowerCase();
    return { ...page, title, last: title.split(".").pop(), heads: page.h.map(([text]) => text.toLowerCase()), body: page.b.toLowerCase() };
  }

  const stem = (word) => word.length > 4 ? word.replace(/(ing|es|s|ed|ation)$/, "") : word;

  function score(page, words, query) {
    let total = 0, all = true;
    for (const word of words) {
      const root = stem(word);
      let part = 0;
      if (page.title === query || (page.k === "f" && page.last === query)) part += 60;
      else if (page.k === "f" && page.last.startsWith(word)) part += 14;
      if (page.title.includes(root)) part += page.k === "f" ? 6 : 22;
      if (page.heads.some((h) => h.includes(root))) part += 12;
      const found = page.body.split(root).length - 1;
      if (found) part += Math.min(8, 2 + 2 * Math.log2(1 + found));
      all &&= part > 0;
      total += part;
    }
    if (!all) return 0;
    if (page.heads.some((h) => h.includes(query))) total += 30;
    if (words.length > 1 && page.body.includes(query)) total += 12;
    if (page.s === "Design") total *= 0.7;
    return page.k === "g" ? total * 1.3 : page.k === "l" ? total * 0.8 : total;
  }

  // `jnp.sum` and `jax.numpy.sum` are looked up as `curta.numpy.sum`.
  function fullName(query) {
    return query.replace(/^(jax|curta)?\.?jnp\./, "curta.numpy.").replace(/^(lax|nn|random|scipy)\./, "curta.$1.").replace(/^jax\./, "curta.");
  }

  function excerpt(page, words) {
    const place = Math.max(0, page.body.indexOf(stem(words[0])) - 40);
    const text = page.b.slice(place, place + 130);
    return (place ? "…" : "") + text + "…";
  }

  async function find() {
    const query = fullName(input.value.trim().toLowerCase()), words = query.split(/\s+/).filter(Boolean);
    if (!words.length) { list.hidden = true; return; }
    const pages = await load();
    const ranked = pages.map((page) => [score(page, words, query), page]).filter(([s]) => s > 0);
    ranked.sort((a, b) => b[0] - a[0] || a[1].title.length - b[1].title.length);
    list.replaceChildren(...ranked.slice(0, 12).map(([, page]) => entry(page, words, query)));
    if (!ranked.length) {
      const none = document.createElement("li");
      none.className = "none";
      none.textContent = "Nothing found";
      list.append(none);
    }
    chosen = -1;
    list.hidden = false;
  }

  function entry(page, words, query) {
    const item = document.createElement("li"), link = document.createElement("a");
    const head = page.h.find(([text]) => text.toLowerCase().includes(query));
    link.href = (root.endsWith("/") ? root : root + "/") + page.u + (head && page.k === "g" ? "#" + head[1] : "");
    const where = document.createElement("small"), title = document.createElement("b");
    const text = document.createElement("small");
    where.className = "where";
    where.textContent = page.s;
    title.textContent = head && page.k === "g" ? `${page.t}: ${head[0].replace(/&[a-z]+;/g, "")}` : page.t;
    text.textContent = excerpt(page, words);
    link.append(where, title, text);
    item.append(link);
    return item;
  }

  input.addEventListener("focus", load);
  input.addEventListener("input", find);
  input.addEventListener("keydown", (event) => {
    const links = [...list.querySelectorAll("a")];
    if (event.key === "Escape") { list.hidden = true; input.blur(); return; }
    if (event.key === "Enter" && links.length) { location.href = links[Math.max(chosen, 0)].href; return; }
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    chosen = (chosen + (event.key === "ArrowDown" ? 1 : -1) + links.length) % links.length;
    links.forEach((link, i) => link.classList.toggle("chosen", i === chosen));
    links[chosen].scrollIntoView({ block: "nearest" });
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/INPUT|TEXTAREA/.test(document.activeElement.tagName)) {
      event.preventDefault();
      input.focus();
    }
  });
  document.addEventListener("click", (event) => { if (!box.contains(event.target)) list.hidden = true; });
})();
