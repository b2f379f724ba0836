import sys

from gex.npu.run import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
