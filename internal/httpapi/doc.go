// Package httpapi is the HTTP contract of openapi.yaml: routes, checks in their fixed order (authentication, header syntax,
// body, fingerprint, state), and the one table that turns errors into problem documents. It decides nothing about money:
// package payments does, and its answers are only spelt here.
//
// Three rules hold for every response: it has an X-Request-Id; an error is a problem document whose code is in the
// catalogue; nothing of the inside leaves, and nothing secret is logged. Logs name the route's pattern and never the path,
// which may hold a key.
package httpapi
