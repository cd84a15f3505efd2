// Package commands is what an operator types: reconciler dlq, reconciler key and reconciler statement. It reads the
// command line, and writes for a person in 120 columns, or JSON where that is asked for.
//
// It decides nothing: packages operator and statement do. It opens no database and reads no setting: each command is
// handed what opens them, and calls it once the command line has been found to be right. What others have written is
// shown without anything that a terminal would obey.
package commands
