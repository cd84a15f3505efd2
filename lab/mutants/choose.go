package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
)

// share is SHARE: so many parts of so many.
func (s settings) share() (part, of int, err error) {
	first, second, found := strings.Cut(s.Share, "/")
	part, errPart := strconv.Atoi(first)
	of, errOf := strconv.Atoi(second)
	if !found || errors.Join(errPart, errOf) != nil || part < 1 || of < part {
		return 0, 0, fmt.Errorf("SHARE is %q, must be like 1/5", s.Share)
	}
	return part, of, nil
}

// chosen are the mutants that the settings ask for. What is caught is not tried again, nor what survives for a reason.
// COUNT asks for a sample of all that must be caught. It leaves out what is known to hang: that takes minutes.
func (w *work) chosen() []mutant {
	var asked []mutant
	for _, m := range w.plan.mutants {
		if w.Package == "" || asks(w.Package, m) {
			asked = append(asked, m)
		}
	}
	if part, of, _ := w.share(); part < of || w.Count > 0 {
		random := rand.New(rand.NewPCG(w.Seed, w.Seed))
		random.Shuffle(len(asked), func(i, j int) { asked[i], asked[j] = asked[j], asked[i] })
		asked = asked[:len(asked)*part/of]
	}
	var chosen []mutant
	for _, m := range asked {
		r := w.known[m.hash].verdict
		hasVerdict := r == caught || r == hung || r == survived && reasonFor(w.survivors, m) != ""
		switch {
		case w.Count > 0 && len(chosen) == w.Count:
			return chosen
		case w.Count > 0 && r != hung && reasonFor(w.survivors, m) == "", w.Count == 0 && (w.Fresh || !hasVerdict):
			chosen = append(chosen, m)
		}
	}
	return chosen
}

// asks tells whether PACKAGE names the place of a mutant: its package, its file, the directory of an SQL file, or, as
// for go, all below a directory with /... after it.
func asks(names string, m mutant) bool {
	where := m.where
	for name := range strings.SplitSeq(names, ",") {
		name = strings.Trim(name, " /")
		below, all := strings.CutSuffix(name, "/...")
		itself := where == name || strings.HasPrefix(m.line, name+":")
		of := strings.HasSuffix(where, ".sql") && path.Dir(where) == name
		if itself || of || all && (where == below || strings.HasPrefix(where, below+"/")) {
			return true
		}
	}
	return false
}

// checkPackage fails if a name in PACKAGE fits no place.
func (w *work) checkPackage() error {
	for name := range strings.SplitSeq(w.Package, ",") {
		if w.Package != "" && !slices.ContainsFunc(w.plan.mutants, func(m mutant) bool { return asks(name, m) }) {
			return fmt.Errorf("PACKAGE names %q, where nothing is taken away; mutants score lists the places", name)
		}
	}
	return nil
}
