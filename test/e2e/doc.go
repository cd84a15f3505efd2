// Package e2e holds the tests that see Payonce as its clients do: real HTTP, a real PostgreSQL, the real mock PSP. It
// has no code of its own. Read table_test.go beside the answer table of the API document: one test for each row.
//
// Each test has a database and a PSP to itself, from setup. Requests go through package contract, which fails a test
// when an answer is not what openapi.yaml says.
package e2e
