// State of the page, in its address: in the query of a served page, behind `#` in a file, whose query browsers guard.

const inHash = () => document.querySelector('meta[name="benchjobs-source"]').content !== "http";

// The parameters of the page now.
export function current() {
  return new URLSearchParams(inHash() ? location.hash.replace(/^#\??/, "") : location.search);
}

// Address of a page with parameters; empty ones are left out, of a list each is there.
export function link(page, parameters) {
  const found = new URLSearchParams({ page });
  for (const [name, value] of Object.entries(parameters || {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") found.append(name, one);
    }
  }
  return (inHash() ? "#?" : "?") + found;
}

// Address of this page with some parameters changed.
export function changed(parameters) {
  const now = {};
  for (const name of new Set(current().keys())) {
    const values = current().getAll(name);
    now[name] = values.length > 1 ? values : values[0];
  }
  const { page = "jobs", ...rest } = { ...now, ...parameters };
  return link(page, rest);
}

// Goes to an address, as a link does; `replace` leaves no way back to the present one. The way back leads to the same place.
export function go(address, replace = false) {
  if (!replace) {
    const link = document.activeElement && document.activeElement.closest("a[href]");
    history.replaceState({ scroll: window.scrollY, link: link && link.getAttribute("href") }, "");
  }
  history[replace ? "replaceState" : "pushState"](null, "", address);
  window.dispatchEvent(new Event("benchjobs-page"));
}

// Remembers parameters in the address without leaving the page.
export function remember(parameters) {
  history.replaceState(null, "", changed(parameters));
}
