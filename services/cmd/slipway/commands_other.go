//go:build !linux

package main

// linuxConstructors returns no constructors: the commands that mount environments need Linux.
func linuxConstructors() []namedConstructor { return nil }

func entered() (code int, ok bool) { return 0, false }

func engines() []string { return nil }

func exitCode(error) (code int, ok bool) { return 0, false }
