// Package alerts tells a program of the operator what waits for a person, by
// webhooks that are signed as Standard Webhooks says. It decides nothing, and a
// link in an alert only shows. Rule of thumb: an alert that does not arrive loses
// nothing, because what waits goes on waiting at the bridge.
package alerts
