// Package commands is what an operator types: reconciler key, timeline, statement and scan. It reads the command line,
// and writes for a person in 120 columns.
//
// It decides about no dead letter: operators do that in the console, or with the operator API. It opens no database and
// reads no setting: each command is handed what opens them, and calls it once the command line has been found to be
// right. What others have written is shown without anything that a terminal would obey.
package commands
