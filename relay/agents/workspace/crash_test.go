package workspace_test

const childVariable = "WORKSPACE_CHILD"

func child() int { return 0 }
