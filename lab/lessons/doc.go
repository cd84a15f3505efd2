// Package lessons runs what the course and docs/sources.md tell their readers to type, and compares what comes out with
// what the pages show. A psql block is a session in several windows (session_test.go). It is played in psql itself and
// in the driver, and the server says which window waits.
package lessons
