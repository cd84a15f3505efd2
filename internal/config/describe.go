package config

import (
	"fmt"
	"io"
	"reflect"
	"text/tabwriter"
)

// Describe writes the settings of structs as one table for --help, each setting once: with the defaults given, or else
// its own.
func Describe(w io.Writer, defaults map[string]string, settingsOf ...any) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	described := map[string]bool{}
	for _, of := range settingsOf {
		for _, s := range settings(reflect.TypeOf(of)) {
			if described[s.name] {
				continue
			}
			described[s.name] = true
			if d, ok := defaults[s.name]; ok {
				s.fallback = d
			}
			fmt.Fprintf(tw, "  %s\t%s\t%s\n", s.name, s.fallback, s.desc)
		}
	}
	return tw.Flush()
}

type setting struct{ name, fallback, desc string }

// settings lists the settings of a struct, and of the structs embedded in it, in their order.
func settings(t reflect.Type) []setting {
	var all []setting
	for i := range t.NumField() {
		field := t.Field(i)
		if field.Anonymous {
			all = append(all, settings(field.Type)...)
			continue
		}
		if field.Tag.Get("env") != "" {
			all = append(all, setting{field.Tag.Get("env"), field.Tag.Get("envDefault"), field.Tag.Get("desc")})
		}
	}
	return all
}

// Environment gives the settings of structs as an environment has them, NAME=value, for a child process that is to
// have the same settings. An empty setting is among them: it takes the place of one in the environment that the child
// would inherit.
func Environment(getenv func(string) string, settingsOf ...any) []string {
	var all []string
	for _, of := range settingsOf {
		for _, s := range settings(reflect.TypeOf(of)) {
			all = append(all, s.name+"="+getenv(s.name))
		}
	}
	return all
}
