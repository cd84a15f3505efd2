// Package migrations carries the database schema inside the binary.
//
// It owns the order in which the schema comes to be, one goose file per step, and what each role may do with it
// (roles/), and nothing else: who applies the files, under which lock and with which connection is the business of
// package postgres. Rights are no step of a history: the files in roles/ say what holds now, and are applied again
// after every migration. River's tables come first (files named *_river_v<n>.sql, one per River schema version, because
// a new enum value cannot be used in the transaction that adds it). Package archtest compares River's files with the
// River library in go.mod. Ours follow, one file for each subject. A file that has been released (released.txt) is
// never edited; a change is a new file, and only adds (ADR 0059). Ours begin at 110. Development versions used the
// numbers 9 to 26 and 100 to 106: a database that has one of them is recognized by it.
package migrations

import (
	"embed"
	"io/fs"
)

//go:embed *.sql roles/*.sql
var files embed.FS

// FS returns the goose files, all in its root directory, and those about the roles in roles.
func FS() fs.FS {
	return files
}
