// Package lessons runs what the course and docs/sources.md tell their readers to type, and compares what comes out with
// what the pages show. So nobody learns from an output that the programs no longer give.
//
// It owns the form of a page: which block is pasted, which block is its output, what a lesson must have, and where its
// links lead. It refuses to know what is right: the pages say that, and a person decides when an output may change. All
// of it is tests, but for three programs that lessons run: memory, a server; shop, a caller; and consumer, which takes
// events.
//
//	transcript_test.go  a page's blocks, and which of them is the output of which
//	normal_test.go      what differs from run to run, and is not compared
//	programs_test.go    make demo and make break, on ports of their own
//	bash_test.go        the terminal of the reader
//	lesson_test.go      runs each lesson
//	picture_test.go     the console's pictures of the lessons' keys
//	page_test.go        what each lesson must have
//	links_test.go       where the links lead
//	index_test.go       the course's page has each lesson, and its ways add up
//	windows_test.go     runs each session of psql
//	session_test.go     what is typed in several windows, and who waits for whom
//	terminal_test.go    one window of a session
//	sources_test.go     what the page about the sources must have
//
// To write down what comes out: go test ./lessons -run 'Shown/NN-name' -update, in lab. To have the links follow their
// code: make links.
package lessons
