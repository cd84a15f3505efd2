// Package native speaks the dialect of the mock PSP, which is that of the PSPs of one request: a charge is executed by
// the request that makes it, and the PSP recognises a repeated key. It knows no other dialect.
//
// These rules decide which Outcome an answer is, beside those of the port:
//
//   - Succeeded and Declined need the status 201, 200 or 402, and a body that matches the request.
//   - Declined is also the one error that is documented to come before any effect, if it repeats account, key and
//     reference (verdict.go, ADR 0025).
//   - 422 says that the key was used with another body. It is a contradiction.
//
// Rules for reading prevent wrong conclusions from a bad answer:
//
//   - NotFound is a well-formed, empty list that says that it is complete. If a list has records of another account,
//     key or object, the PSP has not answered our question, and the lookup is LookupFailed.
//   - A page of [Client.List] is oldest first, says whether more pages follow, and has a new cursor if they do.
//     Otherwise it is an error.
//   - A statement is complete only if its trailer has the number of its lines.
//   - A webhook is genuine if it is signed as Standard Webhooks asks (https://www.standardwebhooks.com).
//
// A record of a list that is wrong or too long is returned as [gateway.Unreadable], and hides no other record. A lookup
// with such a record is LookupFailed.
package native
