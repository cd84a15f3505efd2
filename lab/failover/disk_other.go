//go:build !linux

package main

import "errors"

// errNoDisk says that we cannot mount anything.
var errNoDisk = errors.New("a small disk is only made on Linux")

type disk struct{ dir string }

func mountDisk(string) (*disk, error) { return nil, errNoDisk }

func (d *disk) fill() error    { return errNoDisk }
func (d *disk) clear() error   { return nil }
func (d *disk) unmount() error { return nil }
