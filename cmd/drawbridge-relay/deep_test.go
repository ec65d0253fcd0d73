//go:build deep

package main

// The deep tier runs the scripts of testdata/deep, too.
func init() { scripts = "testdata/*/*.txtar" }
