// The list of a service's jobs, asked for again and again; the log of one that the address names.

const JOBS_EVERY_MS = 2000, JOBS_LISTED = 100, MOST_JOBS_LISTED = 1000;

class JobList {
  constructor() {
    this.body = document.getElementById('jobs').tBodies[0];
    this.limit = JOBS_LISTED;
    this.more = document.getElementById('more');
    this.more.addEventListener('click', () => { this.limit = Math.min(this.limit + JOBS_LISTED, MOST_JOBS_LISTED); this.show().catch(() => {}); });
    window.addEventListener('hashchange', () => this.show().catch(() => {}));
  }

  async start() {
    await this.show();
    ready();
    for (;;) {
      await new Promise((done) => setTimeout(done, JOBS_EVERY_MS));
      try {
        if (!document.hidden) await this.show();
        document.getElementById('connection').textContent = '';
      } catch (error) {
        if (error instanceof NeedsToken) throw error;
        document.getElementById('connection').textContent = error instanceof Refused ? error.message + '.' : 'The service does not answer; trying again …';
      }
    }
  }

  async show() {
    const found = await ask(API + '/jobs?limit=' + this.limit), focused = document.activeElement && document.activeElement.dataset.key;
    this.body.replaceChildren(...found.jobs.map((job) => this.line(job)));
    if (focused) { const control = this.body.querySelector('[data-key="' + focused + '"]'); if (control) control.focus(); }
    document.getElementById('jobs-status').textContent = this.told(found);
    const shown = found.jobs.length;
    this.more.hidden = shown === found.total;
    this.more.disabled = shown >= MOST_JOBS_LISTED;
    await this.log(await this.named(found.jobs));
  }

  told(found) {
    if (!found.total) return 'No jobs. goldwatch submit sends one.';
    const shown = found.jobs.length < found.total ? 'the newest ' + found.jobs.length + ' of ' + found.total : found.total;
    return found.states.running + ' running, ' + found.states.queued + ' waiting; ' + shown + ' in all; of those that have ended the newest ' + found.kept + ' are kept';
  }

  // The job that the address names, which may be older than those that are listed.
  async named(jobs) {
    const name = (/^#job-([0-9a-f]+)$/.exec(location.hash) || [])[1];
    return name && (jobs.find((job) => job.id === name) || ask(API + '/jobs/' + name).catch(() => undefined));
  }

  line(job) {
    const ended = job.ended ? new Date(job.ended) : new Date(), words = [job.command, ...job.args, ...Object.entries(job.options).flatMap(optionWords)];
    const took = job.started ? ageText(Math.max(0, (ended - new Date(job.started)) / 1000)) : '';
    const cells = [
      ['', make('span', {class: 'verdict', 'data-is': cameTo(job)}, job.state)], ['name', printable(words.join(' '))], ['', new Date(job.submitted).toLocaleString()],
      ['', took], ['', job.exit_code === null ? '' : 'exit code ' + job.exit_code],
      ['', job.run === null || job.state === 'queued' ? '' : make('a', {href: BASE + '/runs/' + job.run, 'data-key': 'run-' + job.id}, 'run')], ['', make('a', {href: '#job-' + job.id, 'data-key': 'log-' + job.id}, 'log')],
      ['', document.documentElement.dataset.may === 'submit' && ['queued', 'running'].includes(job.state) ? this.cancelButton(job) : ''],
    ];
    return make('tr', {'data-state': job.state, 'data-job': job.id}, cells.map(([kind, content]) => make('td', {class: kind || null}, content)));
  }

  cancelButton(job) {
    const button = make('button', {type: 'button', 'data-key': 'cancel-' + job.id}, 'cancel');
    button.addEventListener('click', async () => {
      button.disabled = true;
      try {
        await ask(API + '/jobs/' + job.id + '/cancel', {});
        await this.show();
      } catch (error) { document.getElementById('connection').textContent = error.message + '.'; }
    });
    return button;
  }

  // Show the log of a job, its end in sight while it grows.
  async log(job) {
    const part = document.getElementById('job'), log = document.getElementById('log');
    part.hidden = !job;
    if (!job) return;
    document.getElementById('job-head').textContent = 'Log of ' + job.id + ' (' + job.state + ')';
    const answer = await fetch(API + '/jobs/' + job.id + '/log', {headers: {'X-Goldwatch': '1'}}), lines = (await answer.text()).split('\n').map(printable).join('\n');
    if (log.textContent === lines) return;
    const follows = log.scrollTop + log.clientHeight >= log.scrollHeight - 40;
    log.textContent = lines;
    if (follows) log.scrollTop = log.scrollHeight;
  }
}

// A run that was done may still say that something is wrong.
function cameTo(job) {
  return job.state !== 'done' ? job.state : {1: 'fail', 3: 'incomplete'}[job.exit_code] || 'done';
}

function optionWords([name, value]) {
  return value === true ? ['--' + name] : value === false ? [] : [value].flat().map((one) => '--' + name + '=' + one);
}

if (document.getElementById('jobs')) startPage(() => new JobList().start());
