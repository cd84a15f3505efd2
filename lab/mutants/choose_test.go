package main

import (
	"strings"
	"testing"
)

func TestSettingThatACommandTakesNoNoticeOfIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ command, setting, value, says string }{
		{"list", "SHARE", "1/5", "leave out SHARE"},
		{"list", "COUNT", "3", "leave out SHARE and COUNT"},
		{"score", "COUNT", "3", "leave out SHARE and COUNT"},
		{"score", "PACKAGE", "internal/operator", "leave out PACKAGE"},
		{"list", "PACKAGE", "internal/operator", ""},
		{"alone", "COUNT", "3", ""},
		{"", "SHARE", "1/5", ""},
	} {
		s, err := loadSettings(func(name string) string { return map[string]string{c.setting: c.value}[name] })
		if err != nil {
			t.Fatal(err)
		}
		err = s.fit(c.command)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s with %s=%s: %v, want %q", c.command, c.setting, c.value, err, c.says)
		}
	}
}
