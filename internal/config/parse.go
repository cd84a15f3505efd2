package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"time"

	"github.com/caarlos0/env/v11"
)

// Parse reads the settings of a struct through getenv. An empty variable is as good as none.
func Parse(into any, getenv func(string) string) error {
	t := reflect.TypeOf(into).Elem()
	environment := map[string]string{}
	for _, s := range settings(t) {
		if v := getenv(s.name); v != "" {
			environment[s.name] = v
		}
	}
	if err := env.ParseWithOptions(into, env.Options{Environment: environment}); err != nil {
		return named(err, t, environment)
	}
	return bounded(reflect.ValueOf(into).Elem())
}

// maxSpan bounds every span of time. The checks compare sums of some: one that goes round would pass for a short one,
// and a grace period that has gone round for proof at once.
const maxSpan = 10 * 365 * 24 * time.Hour

func bounded(settings reflect.Value) error {
	var bad refusals
	for _, field := range reflect.VisibleFields(settings.Type()) {
		if span, ok := settings.FieldByIndex(field.Index).Interface().(time.Duration); ok && span.Abs() > maxSpan {
			bad.refuse("%s is %s, must not exceed %s", field.Tag.Get("env"), span, maxSpan)
		}
	}
	return errors.Join(bad...)
}

// named says of each value that could not be read which setting it is for: the library names fields of ours, which
// nobody can set.
func named(err error, settings reflect.Type, environment map[string]string) error {
	all, ok := errors.AsType[env.AggregateError](err)
	if !ok {
		return fmt.Errorf("read settings: %w", err)
	}
	var bad []error
	for _, e := range all.Errors {
		unread, ok := errors.AsType[env.ParseError](e)
		if !ok {
			bad = append(bad, fmt.Errorf("read settings: %w", e))
			continue
		}
		field, _ := settings.FieldByName(unread.Name)
		name := field.Tag.Get("env")
		bad = append(bad, fmt.Errorf("%s is %q, must be %s", name, environment[name], form(unread.Type)))
	}
	return errors.Join(bad...)
}

func form(t reflect.Type) string {
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() == reflect.Bool {
		return "true or false"
	}
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "a span of time, such as 500ms, 30s or 48h"
	case reflect.TypeFor[netip.Prefix]():
		return "networks, such as 10.1.0.0/16,fd00:1::/32"
	case reflect.TypeFor[slog.Level]():
		return "debug, info, warn or error"
	}
	if t.Kind() == reflect.Float64 {
		return "a number, such as 0.01"
	}
	return "a whole number in its range"
}
