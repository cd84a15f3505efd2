package main

import (
	"strings"

	"payonce/internal/config"
)

// planted is the name of the bug that this program was built with, and what the bug is. The linker sets it, for make
// break; so a program with a bug always says so.
var planted string //nolint:gochecknoglobals // the linker sets variables of a package, and nothing else

// notice says what is wrong with this demo on purpose, or is empty.
func (s settings) notice() string {
	var said []string
	if name, bug, ok := strings.Cut(planted, ": "); ok {
		said = append(said, "A bug is planted in this demo, "+name+": "+bug)
	}
	if s.own.NaiveProgram != "" {
		said = append(said, "The naive server runs beside this demo, at "+config.LocalURL(s.own.NaiveAddr)+
			", and uses the same PSP. It charges twice.")
		if s.stripe() {
			said = append(said, "It speaks the mock PSP's own dialect, not Stripe's.")
		}
	}
	return strings.Join(said, " ")
}
