package config

import "reflect"

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
