// A sign-in provider for TestSignInAtAGenuineProvider: node-oidc-provider with its own sign-in
// pages. Usage: node provider.mjs PORT REDIRECT_URI PEOPLE.json
// PEOPLE.json is read at each sign-in: {"ada": {"email": "…", "groups": ["…"]}}. Other users
// cannot sign in.
import { readFileSync } from 'node:fs';
import Provider from 'oidc-provider';

const [port, redirect, people] = process.argv.slice(2);
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{ client_id: 'slipway', client_secret: 's3cret', redirect_uris: [redirect] }],
  scopes: ['openid', 'email', 'groups'],
  claims: { openid: ['sub'], email: ['email', 'email_verified'], groups: ['groups'] },
  cookies: { keys: ['a key of the test'] },
  features: { devInteractions: { enabled: true } },
  // The address is in the ID token. Groups are only at the UserInfo endpoint, as the standard has it.
  conformIdTokenClaims: false,
  findAccount(ctx, id) {
    const person = JSON.parse(readFileSync(people))[id];
    return person && {
      accountId: id,
      claims: (use) => ({ sub: id, email: person.email, email_verified: true, ...(use === 'userinfo' && { groups: person.groups }) }),
    };
  },
});
provider.listen(Number(port), '127.0.0.1', () => console.log('ready'));
