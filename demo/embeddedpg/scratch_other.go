//go:build unix && !linux

package embeddedpg

func memoryHasRoom() bool { return false }
