// What CloudFront Functions' JavaScript runtime 2.0 documents, and whether
// function.js keeps to it. The lists are those of "JavaScript runtime 2.0
// features for CloudFront Functions" and "Helper methods for key value stores",
// less what nobody here needs: adding to them is a look into that page.
import test from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { parse } from 'acorn';

const SOURCE = readFileSync(new URL('../function.js', import.meta.url), 'utf8');
const BYTES_MAX = 10 * 1_024;

const NODES = new Set([
  'Program', 'ImportDeclaration', 'ImportDefaultSpecifier', 'VariableDeclaration', 'VariableDeclarator',
  'FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression', 'RestElement', 'BlockStatement',
  'ExpressionStatement', 'ReturnStatement', 'IfStatement', 'ForStatement', 'ForInStatement', 'WhileStatement',
  'DoWhileStatement', 'BreakStatement', 'ContinueStatement', 'SwitchStatement', 'SwitchCase', 'ThrowStatement',
  'TryStatement', 'CatchClause', 'AwaitExpression', 'CallExpression', 'NewExpression', 'MemberExpression',
  'BinaryExpression', 'LogicalExpression', 'UnaryExpression', 'UpdateExpression', 'AssignmentExpression',
  'ConditionalExpression', 'ArrayExpression', 'ObjectExpression', 'Property', 'TemplateLiteral', 'TemplateElement',
  'Identifier', 'Literal', 'ThisExpression', 'EmptyStatement', 'SequenceExpression',
]);
const OPERATORS = new Set('= += -= *= /= %= <<= >>= >>>= &= ^= |= + - * / % ** << >> >>> & | ^ ~ ! && || == != === !== < > <= >= ++ -- typeof void delete in instanceof'.split(' '));
const GLOBALS = new Set('Object String Number Math Date JSON Array Buffer Error TypeError undefined NaN Infinity isNaN isFinite parseInt parseFloat decodeURIComponent encodeURIComponent atob btoa require console'.split(' '));
const MODULES = new Set(['crypto', 'querystring', 'buffer']);
const STATIC = {
  Object: 'assign create defineProperty entries freeze keys values',
  String: 'fromCharCode fromCodePoint',
  Number: 'EPSILON MAX_SAFE_INTEGER isFinite isInteger isNaN isSafeInteger parseFloat parseInt',
  Math: 'abs ceil floor max min pow round sign sqrt trunc imul',
  Date: 'now parse UTC',
  JSON: 'parse stringify',
  Array: 'isArray of',
  Buffer: 'alloc byteLength compare concat from isBuffer isEncoding',
  crypto: 'createHash createHmac',
  console: 'log',
  cf: 'kvs',
  store: 'get exists meta',
};
// On values: no type is known here, so a name is allowed wherever it is documented.
const METHODS = new Set(('charAt charCodeAt codePointAt concat endsWith includes indexOf lastIndexOf match padEnd padStart repeat replace '
  + 'search slice split startsWith substr substring toLowerCase toUpperCase trim trimEnd trimStart '
  + 'every filter find findIndex forEach join map pop push reduce reverse shift some sort splice unshift fill '
  + 'hasOwnProperty toString valueOf toExponential toFixed toPrecision getTime toISOString exec test apply bind call '
  + 'digest update subarray equals readUInt8 readUInt16BE readUInt32BE readUIntBE readDoubleBE').split(' '));

/** Everything in the source that is not documented. */
function undocumented(source) {
  const found = [];
  const say = (node, what) => found.push(`line ${node.loc.start.line}: ${what}`);
  const tree = parse(source, { ecmaVersion: 2024, sourceType: 'module', locations: true });
  const declared = new Set();
  walk(tree, (node) => {
    if (node.type === 'VariableDeclarator') declared.add(node.id.name);
    if (node.type === 'ImportDefaultSpecifier') declared.add(node.local.name);
    if (node.type === 'CatchClause' && node.param) declared.add(node.param.name);
    if (/Function/.test(node.type)) {
      if (node.id) declared.add(node.id.name);
      for (const param of node.params) declared.add(param.name ?? param.argument?.name);
    }
  });
  walk(tree, (node, parent, depth) => {
    if (!NODES.has(node.type)) say(node, node.type);
    if (node.operator && !OPERATORS.has(node.operator)) say(node, `operator ${node.operator}`);
    if (node.async && (node.type !== 'FunctionDeclaration' || depth > 0)) say(node, 'an async function inside another');
    if (node.generator) say(node, 'a generator');
    if (node.type === 'CatchClause' && !node.param) say(node, 'catch without a name');
    if (node.optional) say(node, 'optional chaining');
    if (node.type === 'Property' && (node.shorthand || node.method || node.computed || node.kind !== 'init')) say(node, 'a short property');
    if (node.type === 'RestElement' && !/Function/.test(parent.type)) say(node, 'destructuring');
    if (/^(Variable|Import)Declar/.test(node.type) && node.id && node.id.type !== 'Identifier') say(node, 'destructuring');
    if (/Function/.test(node.type) && node.params.some((param) => !['Identifier', 'RestElement'].includes(param.type))) say(node, 'a default or taken apart argument');
    if (node.type === 'ImportDeclaration' && node.source.value !== 'cloudfront') say(node, `import of ${node.source.value}`);
    if (node.type === 'Literal' && typeof node.value === 'bigint') say(node, 'a big integer');
    if (node.regex && /[^gim]/.test(node.regex.flags)) say(node, `flags ${node.regex.flags}`);
    if (node.regex && /\(\?<[!=]|\\p\{/.test(node.regex.pattern)) say(node, 'look-behind or a property');
    if (node.type === 'Identifier' && !declared.has(node.name) && !GLOBALS.has(node.name)) {
      const isName = (parent.type === 'MemberExpression' && parent.property === node && !parent.computed)
        || (parent.type === 'Property' && parent.key === node);
      if (!isName) say(node, `global ${node.name}`);
    }
    if (node.type !== 'CallExpression') return;
    const { callee } = node;
    if (callee.name === 'require' && !MODULES.has(node.arguments[0]?.value)) say(node, 'require of another module');
    if (callee.type !== 'MemberExpression') return;
    if (callee.computed) return say(node, 'a call by a computed name');
    const { object, property } = callee;
    const known = Object.hasOwn(STATIC, object.name ?? '') ? STATIC[object.name].split(' ') : null;
    if (known ? !known.includes(property.name) : !METHODS.has(property.name)) say(node, `${object.name ?? '…'}.${property.name}()`);
    if (object.name === 'console' && node.arguments.length > 1) say(node, 'console.log with a comma');
  });
  return found;
}

function walk(node, visit, parent = null, depth = 0) {
  visit(node, parent, depth);
  const inside = depth + (/Function/.test(node.type) ? 1 : 0);
  for (const key of Object.keys(node)) {
    for (const child of [].concat(node[key])) {
      if (child && typeof child.type === 'string' && key !== 'loc') walk(child, visit, node, inside);
    }
  }
}

test('the function uses only what runtime 2.0 documents', () => {
  assert.deepEqual(undocumented(SOURCE), []);
});

test('the check finds what the runtime does not have', () => {
  for (const [source, expected] of [
    ['const a = b?.c;', /Chain|optional/], ['const a = 1 ?? 2;', /\?\?/], ['class A {}', /Class/], ['const { a } = {};', /destructuring/],
    ['for (const a of []) {}', /ForOf/], ['const a = [...[]];', /Spread/], ['const a = new Map();', /Map/], ['setTimeout(0);', /setTimeout/],
    ['fetch("/");', /fetch/], ['function f(a = 1) {}', /default/], ['const f = async () => 1;', /async/], ['try {} catch {}', /catch/],
    ['"a".at(0);', /at\(\)/], ['"a".matchAll(/a/g);', /matchAll/], ['structuredClone(1);', /structuredClone/], ['const a = 1n;', /big/],
    ['import fs from "fs";', /import of fs/], ['const a = require("fs");', /another module/], ['const a = { b() {} };', /short/],
    ['const c = require("crypto"), crypto = c; crypto.timingSafeEqual(1, 2);', /timingSafeEqual/], ['/(?<=a)b/.test("");', /look-behind/],
    ['const o = {}; o.a ||= 1;', /\|\|=/], ['eval("1");', /eval/], ['console.log("a", "b");', /comma/],
  ]) assert.match(undocumented(source).join('\n'), expected, source);
});

test('the function fits into 10 KB', (t) => {
  const bytes = Buffer.byteLength(SOURCE);
  t.diagnostic(`function.js has ${bytes} of ${BYTES_MAX} bytes`);
  assert.ok(bytes <= BYTES_MAX);
});

test('the longest document fits into a value of 1 KB', async () => {
  const { document } = await import('./world.mjs');
  const longest = document({
    version: 2 ** 53 - 1, fresh_until_ms: 253_370_764_800_000, opens_at: '9998-11-11T12:00:00.000+05:30', opens_ms: 253_370_764_799_999,
    draw_closes_ms: 253_370_764_799_999, closes_ms: 253_370_764_799_999, units: 100_000, mode: 'draw',
    entries: 2 ** 53 - 1, scale: 2 ** 53 - 1, threshold: 0.0030555555555555557, sample: 4_294_967_295,
    keys: ['k'.repeat(64), 'k'.repeat(64)], origin: `https://${'o'.repeat(200)}`,
  });
  const bytes = Buffer.byteLength(JSON.stringify(longest));
  assert.ok(bytes <= 1_024, `${bytes}`);
});
