// A cursor over the charts: shows the values of the second under the pointer. The page is complete without it.
(() => {
  const charts = document.querySelector("[data-charts]"), data = document.getElementById("series");
  if (!charts || !data) return;
  const { start, step, lines } = JSON.parse(data.textContent);
  const cursor = charts.querySelector(".cursor"), plot = charts.querySelector(".plot svg");
  const length = Object.values(lines)[0].length;
  const figure = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
  const show = (event) => {
    const box = plot.getBoundingClientRect(), outer = charts.getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    if (share < 0 || share > 1) return hide();
    const i = Math.min(length - 1, Math.floor(share * length));
    cursor.hidden = false;
    cursor.style.left = `${box.left - outer.left + ((i + 0.5) / length) * box.width}px`;
    cursor.dataset.time = `${figure.format(start + i * step)} s`;
    for (const slot of charts.querySelectorAll("[data-value]")) {
      const value = (lines[slot.dataset.value] ?? [])[i];
      const unit = slot.dataset.value.endsWith("_ms") ? " ms" : "";
      slot.textContent = value == null ? "–" : figure.format(value) + unit;
    }
  };
  const hide = () => {
    cursor.hidden = true;
    for (const slot of charts.querySelectorAll("[data-value]")) slot.textContent = "";
  };
  charts.addEventListener("pointermove", show);
  charts.addEventListener("pointerleave", hide);
})();
