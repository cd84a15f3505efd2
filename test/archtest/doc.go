// Package archtest holds the rules of the tree that the compiler does not
// know: what may be taken away without touching the rest (rings.go), who may
// import whom (the table in imports.go), how long a file and a function may be, that
// every package opens with prose, that nothing sleeps instead of waiting, and
// that no tracked file carries a trace of the machine it was written on. It
// also compares River's migrations with the library.
//
// A rule is a function from the parsed tree to the list of its breaches. It
// refuses to know which tree it reads, so each rule is tested on a small
// synthetic breach as well as on ours: a rule that cannot fail proves nothing.
//
// Only its own tests use it. The rules read syntax, not types, and all files
// whatever their build tags, so a breach in a file for another operating
// system is found here.
package archtest
