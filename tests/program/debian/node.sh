#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A server and its client in Node.js, with compiled code, worker threads, files and zlib.
set -euo pipefail
cat >/tmp/both.js <<'END'
const assert = require('assert'), crypto = require('crypto'), fs = require('fs');
const http = require('http'), zlib = require('zlib');
const {Worker, isMainThread, parentPort} = require('worker_threads');
const digest = text => crypto.createHash('sha256').update(text).digest('hex').repeat(100);
if (!isMainThread) {
    parentPort.on('message', ({id, text}) => parentPort.postMessage({id, text: digest(text)}));
    return;
}
const waiting = new Map();
const workers = [0, 1, 2].map(() => new Worker(__filename));
for (const worker of workers)
    worker.on('message', ({id, text}) => { waiting.get(id)(text); waiting.delete(id); });
let count = 0;
const server = http.createServer(async (request, answer) => {
    const id = count++;
    const text = await new Promise(done => {
        waiting.set(id, done);
        workers[id % 3].postMessage({id, text: request.url});
    });
    fs.writeFileSync('/tmp/file' + id % 50, text);
    answer.end(zlib.gzipSync(text));
});
const get = path => new Promise((done, fail) => http.get({port: 8080, path}, answer => {
    const parts = [];
    answer.on('data', part => parts.push(part));
    answer.on('end', () => done(zlib.gunzipSync(Buffer.concat(parts)).toString()));
}).on('error', fail));
server.listen(8080, async () => {
    for (let i = 0; i < 100; i++) {
        const paths = [0, 1, 2, 3, 4, 5, 6, 7].map(k => `/${i}/${k}`);
        assert.deepStrictEqual(await Promise.all(paths.map(get)), paths.map(digest));
    }
    server.close();
    for (const worker of workers) worker.terminate();
    console.log(count, fs.readdirSync('/tmp').filter(name => name.startsWith('file')).length);
});
END
[ "$(node /tmp/both.js)" = '800 50' ]
