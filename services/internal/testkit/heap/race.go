//go:build race

package heap

const race = true
