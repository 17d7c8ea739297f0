// A page that the service makes when it is asked for, or a file, that a login or a link on another site's page stands before.

const OPENED_AGAIN_MS = 5000;

async function openAgain() {
  const now = Date.now();
  // Asked by a page of its own, and with its cookie, it is shown; if it is not, it is not asked for again and again.
  if (now - Number(sessionStorage.getItem('opened ' + location.pathname) || 0) < OPENED_AGAIN_MS) throw new Error('The service does not show this page; open it again');
  sessionStorage.setItem('opened ' + location.pathname, String(now));
  location.replace(location.pathname);
  // A page takes the place of this one; a file does not.
  document.querySelector('main').replaceChildren(make('p', {}, 'A file goes to your downloads.'));
}

if (document.getElementById('opening')) startPage(openAgain);
