// The filter of the page of two results.
const rows = [...document.querySelectorAll('.changes tbody tr')];
const texts = rows.map((row) => row.textContent.toLowerCase());
const filter = document.getElementById('filter'), shown = document.getElementById('shown');

function show() {
  const wanted = filter.value.trim().toLowerCase();
  let count = 0;
  rows.forEach((row, at) => {
    row.hidden = !texts[at].includes(wanted);
    count += !row.hidden;
  });
  for (const part of document.querySelectorAll('.changes')) part.hidden = !part.querySelector('tbody tr:not([hidden])');
  shown.textContent = wanted ? `${count} of ${rows.length} rows` : '';
}

if (rows.length > 1) {
  document.getElementById('finding').hidden = false;
  filter.addEventListener('input', show);
}
ready();
