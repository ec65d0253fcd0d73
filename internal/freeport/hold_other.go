//go:build !linux

package freeport

func hold() (int, func() error, error) { return freeNow() }
