// Package console is what an operator sees in a browser, below /console/ on the operator's listener: an overview, the
// picture of a key, and the dead letters. The pages are rendered here and need no script. With one, they are live:
// each page gets its content again by server-sent events when it changes.
//
// Nothing here slows a payment down. A change that this process has made wakes the pages in memory. The changes of
// other processes are found by one query for all pages of this process, five times a second, and only while somebody
// looks (package watch). Replays and refusals write nothing to the database; the latest of them are in a ring in
// memory (Recent), and are lost with the process.
//
// An operator signs in with an API key for operators. The session is a sealed cookie (session.go). A program that
// reads sends the API key itself, and has no session.
package console
