// The list of a service's jobs, asked for again and again; the log of one that the address names.

const JOBS_EVERY_MS = 2000;

class JobList {
  constructor() {
    this.body = document.getElementById('jobs').tBodies[0];
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
    const found = await ask('/api/jobs'), focused = document.activeElement && document.activeElement.dataset.key;
    this.body.replaceChildren(...found.jobs.map((job) => this.line(job)));
    if (focused) { const control = this.body.querySelector('[data-key="' + focused + '"]'); if (control) control.focus(); }
    const waiting = found.jobs.filter((job) => job.state === 'queued').length, running = found.jobs.filter((job) => job.state === 'running').length;
    document.getElementById('jobs-status').textContent = found.jobs.length ? running + ' running, ' + waiting + ' waiting, ' + found.jobs.length + ' in all' : 'No jobs. goldwatch submit sends one.';
    await this.log(found.jobs.find((job) => '#job-' + job.id === location.hash));
  }

  line(job) {
    const ended = job.ended ? new Date(job.ended) : new Date(), words = [job.command, ...job.args, ...Object.entries(job.options).flatMap(optionWords)];
    const took = job.started ? ageText(Math.max(0, (ended - new Date(job.started)) / 1000)) : '';
    const cells = [
      ['', make('span', {class: 'verdict', 'data-is': cameTo(job)}, job.state)], ['name', printable(words.join(' '))], ['', new Date(job.submitted).toLocaleString()],
      ['', took], ['', job.exit_code === null ? '' : 'exit code ' + job.exit_code],
      ['', job.run === null || job.state === 'queued' ? '' : make('a', {href: '/runs/' + job.run, 'data-key': 'run-' + job.id}, 'run')], ['', make('a', {href: '#job-' + job.id, 'data-key': 'log-' + job.id}, 'log')],
      ['', job.state === 'queued' || job.state === 'running' ? this.cancelButton(job) : ''],
    ];
    return make('tr', {'data-state': job.state, 'data-job': job.id}, cells.map(([kind, content]) => make('td', {class: kind || null}, content)));
  }

  cancelButton(job) {
    const button = make('button', {type: 'button', 'data-key': 'cancel-' + job.id}, 'cancel');
    button.addEventListener('click', async () => {
      button.disabled = true;
      try {
        await ask('/api/jobs/' + job.id + '/cancel', {});
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
    const answer = await fetch('/api/jobs/' + job.id + '/log', {headers: {'X-Goldwatch': '1'}}), lines = (await answer.text()).split('\n').map(printable).join('\n');
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
