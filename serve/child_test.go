package serve

const childEnv = "TIERKIT_TEST_SERVE_CHILD"

func child(string) {}
