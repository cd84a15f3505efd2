// Package httpapi is the HTTP contract of openapi.yaml: the routes, the checks in their fixed order (authentication,
// header syntax, body, fingerprint, state), and the table that turns errors into problem documents. It decides nothing
// about money: package payments answers, and this package writes the answers as HTTP responses.
//
// Three rules hold for every response. It has an X-Request-Id. An error is a problem document whose code is in the
// catalogue. No internal detail is sent, and nothing secret is logged: logs have the route's pattern and never the
// path, because a path may have a key in it.
package httpapi
