raise OSError("the licence has run out")
